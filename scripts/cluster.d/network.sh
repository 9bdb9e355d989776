# The network: a bridge, and a network namespace for each node. Traffic, handlers and checks are at the
# bridge.
#
# The addresses are loopback addresses, which the kernel routes as any other here: Elasticsearch
# asks for more open files than a container may have unless all its addresses are such.
# shellcheck shell=bash disable=SC2034,SC2154

servers=(rabbitmq1 rabbitmq2 rabbitmq3 elasticsearch1 elasticsearch2 elasticsearch3)
instances=(serve1 serve2 serve3)
bridge=127.77.0.1

network_packages() {
	command -v ip >/dev/null || packages+=(iproute2)
	command -v iptables >/dev/null || packages+=(iptables)
}

# address NODE prints its address.
address() {
	local number=${1##*[a-z]}
	case $1 in
	rabbitmq*) echo "127.77.0.1$number" ;;
	elasticsearch*) echo "127.77.0.2$number" ;;
	serve*) echo "127.77.0.3$number" ;;
	esac
}

network() {
	local node
	mount -t tmpfs tmpfs /run
	mkdir /run/netns
	{
		echo "127.0.0.1 localhost"
		echo "$bridge bridge"
		for node in "${servers[@]}" "${instances[@]}"; do
			echo "$(address "$node") $node"
		done
	} >"$dir/hosts"
	mount --bind "$dir/hosts" /etc/hosts
	loopback
	ip link add bridge type bridge
	ip address add "$bridge/24" dev bridge
	ip link set bridge up
	for node in "${servers[@]}" "${instances[@]}"; do
		ip netns add "$node"
		ip link add "$node" type veth peer name eth0 netns "$node"
		ip link set "$node" master bridge up
		enter "$node" loopback
		ip -n "$node" address add "$(address "$node")/24" dev eth0
		ip -n "$node" link set eth0 up
	done
}

# loopback leaves one address to the loopback device of this namespace.
loopback() {
	ip link set lo up
	ip address flush dev lo
	ip address add 127.0.0.1/32 dev lo
	echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet
}
