# The state that later calls need: the backend and the ports, as key=value lines.
# shellcheck shell=bash disable=SC2154

declare -A state=()

load_state() {
	local key value
	state=()
	[[ -r $dir/state ]] || return 0
	while IFS='=' read -r key value; do
		state[$key]=$value
	done <"$dir/state"
}

save_state() {
	local key
	mkdir -p "$dir/logs"
	for key in "${!state[@]}"; do
		echo "$key=${state[$key]}"
	done | sort >"$dir/state.new"
	mv "$dir/state.new" "$dir/state"
}

# assign_ports NAME: chooses the ports that the server does not have yet.
assign_ports() {
	local use uses="amqp management dist epmd"
	[[ $1 != elasticsearch* ]] || uses="http transport"
	[[ $1 != postgres ]] || uses=sql
	# A running server gets a new listener only when it is restarted.
	[[ $1 != rabbitmq4 ]] || "${state[backend]}_alive" "$1" || uses+=" amqps"
	for use in $uses; do
		[[ -n ${state[$1_$use]:-} ]] || state[$1_$use]=$(free_port)
	done
}

# free_port prints a port below the ephemeral range, so that no outgoing connection uses the
# port of a server that a test has stopped.
free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000))
		[[ " ${state[*]:-} " != *" $port "* ]] || continue
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}
