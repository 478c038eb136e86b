#!/bin/sh
# Process 1 of the test guest. Makes two soft-RoCE devices on the two ends of a virtual cable, runs
# /payload/command, reports its exit status on the third serial port and switches off. Whatever
# goes wrong before the command ends without a report, which the host takes for a failure.
bb=/bin/busybox
$bb mkdir -p /proc /sys /dev /tmp
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb mount -t devtmpfs devtmpfs /dev
# The shell is there already and stays: busybox's would take its own, lesser `ip` for the real one.
$bb --install -s /bin 2>/dev/null
export PATH=/usr/bin:/bin HOME=/tmp TERM=dumb
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t devpts devpts /dev/pts
mount -t configfs configfs /sys/kernel/config 2>/dev/null
ln -s /proc/self/fd /dev/fd
for port in 1 2; do stty -F /dev/ttyS$port raw -echo; done
exec </dev/null >/dev/ttyS1 2>&1
give_up() {
    echo "guest: $*"
    sync
    reboot -f
}
while read -r module; do
    insmod "/modules/$module" || give_up "the module $module cannot be loaded"
done </modules/order

ulimit -l unlimited
ip link set lo up
# Both ends are in this network namespace: each must accept what comes from the other's address,
# and the neighbours are fixed, since a datagram is lost while ARP still asks.
for which in all default; do
    echo 1 >/proc/sys/net/ipv4/conf/$which/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/$which/rp_filter
done
ip link add left type veth peer name right
address=1
for end in left right; do
    # Larger than the largest InfiniBand packet with its headers, so that the MTU is 4096.
    ip link set $end mtu 4200 up
    ip addr add 10.77.0.$address/24 dev $end
    address=$((address + 1))
done
ip neigh add 10.77.0.2 dev left nud permanent lladdr "$(cat /sys/class/net/right/address)"
ip neigh add 10.77.0.1 dev right nud permanent lladdr "$(cat /sys/class/net/left/address)"
rdma link add rxe0 type rxe netdev left || give_up "no soft-RoCE device on the left end"
rdma link add rxe1 type rxe netdev right || give_up "no soft-RoCE device on the right end"
tries=0
until [ "$(rdma link | grep -c 'state ACTIVE')" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || give_up "the soft-RoCE devices do not become active: $(rdma link)"
    sleep 0.05
done

# Tests that need a device skip on machines without one; with this they fail instead.
export BOWLINE_TEST_GUEST=1
# Emulated processors are slow, and a host that is busy makes them slower.
export BOWLINE_TEST_SECONDS=600
cd /payload || give_up "nothing was brought along"
sh ./command
status=$?
sync
echo "status $status" >/dev/ttyS2
reboot -f
