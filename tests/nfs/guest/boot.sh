#!/bin/sh
# Sets up the laboratory inside the virtual machine: an NFSv4.1 server on a bridge, and clients that share nothing but it.
# Each client has a network namespace of its own, so a client id, a session, locks and caches of its own.
set -e
value() { sed -n "s/.*lab\.$1=\([^ ]*\).*/\1/p" /proc/cmdline; }

hostname nfslab
ip link set lo up
modprobe -a nfsd nfs veth sch_netem

mkdir -p /export /run/rpcbind /run/netns /run/rpc_pipefs /var/lib/nfs/nfsdcld
mount -o noatime /dev/vdc /export
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc /run/rpc_pipefs
rpcbind -w
# Keeps who held what over a restart of the server, without which no client may reclaim its locks.
nfsdcld
echo '/export *(rw,sync,no_subtree_check,no_root_squash,fsid=0,insecure)' >/etc/exports
exportfs -ra
rpc.mountd
# EFS gives no delegations.
echo 0 >/proc/sys/fs/leases-enable
value lease >/proc/fs/nfsd/nfsv4leasetime
value lease >/proc/fs/nfsd/nfsv4gracetime
rpc.nfsd --no-nfs-version 3 16

ip link add br0 type bridge
ip addr add 10.99.0.1/24 dev br0
ip link set br0 up
for client in $(seq "$(value clients)"); do
  ip netns add "c$client"
  ip link add "v$client" type veth peer name eth0 netns "c$client"
  ip link set "v$client" master br0 up
  ip -n "c$client" link set lo up
  ip -n "c$client" addr add "10.99.0.1$client/24" dev eth0
  ip -n "c$client" link set eth0 up
  tc -n "c$client" qdisc add dev eth0 root netem delay "$(value delay)"
  # Two clients with one host name would be one client to the server.
  ip netns exec "c$client" sh -c "echo client-$client >/sys/fs/nfs/net/nfs_client/identifier"
  mkdir -p "/mnt/c$client"
  # Not `ip netns exec`, whose mounts nobody else sees.
  nsenter "--net=/run/netns/c$client" mount -t nfs4 \
    -o vers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport 10.99.0.1:/ "/mnt/c$client"
done

cd /lab
export PYTHONPATH=/lab/core:/lab PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec python3 -W error -m tests.nfs.guest.agent
