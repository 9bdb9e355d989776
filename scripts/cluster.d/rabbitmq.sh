# A node of a RabbitMQ cluster. Functions that have a name of scripts/services.d/rabbitmq.sh replace
# those for a single broker.
# shellcheck shell=bash disable=SC2154

# rabbitmq_suite: all nodes have the version of BROKER.
rabbitmq_suite() {
	case $BROKER in
	rabbitmq3) echo bookworm ;;
	rabbitmq4) echo trixie ;;
	rabbitmq43) echo sid ;;
	esac
}

rabbitmq_configure() {
	local home=$dir/$1 node
	mkdir -p "$home"
	{
		cat "$parts/rabbitmq.conf"
		echo "listeners.tcp.1 = 0.0.0.0:5672"
		echo "log.console = true"
		echo "log.console.use_colors = off"
		echo "log.file = false"
		echo "cluster_name = cluster"
		echo "cluster_formation.peer_discovery_backend = classic_config"
		for node in 1 2 3; do
			echo "cluster_formation.classic_config.nodes.$node = rabbit@rabbitmq$node"
		done
		if [[ $BROKER == rabbitmq43 ]]; then
			echo "consumer_disconnected_timeout = 10000"
		else
			echo "cluster_partition_handling = pause_minority"
		fi
		echo "queue_leader_locator = balanced"
	} >"$home/rabbitmq.conf"
	cp "$(dirname "$parts")/services.d/enabled_plugins" "$home/enabled_plugins"
	[[ -s $home/.erlang.cookie ]] || echo cluster >"$home/.erlang.cookie"
	chmod 0400 "$home/.erlang.cookie"
	# The schedulers do not spin while idle: the nodes share few cores.
	cat >"$home/env" <<-ENV
		export HOME=/var/lib/rabbitmq LANG=C.UTF-8
		export RABBITMQ_NODENAME=rabbit@$1
		export RABBITMQ_CONFIG_FILE=/var/lib/rabbitmq/rabbitmq.conf
		export RABBITMQ_ENABLED_PLUGINS_FILE=/var/lib/rabbitmq/enabled_plugins
		export RABBITMQ_MNESIA_BASE=/var/lib/rabbitmq/mnesia
		export RABBITMQ_LOG_BASE=/var/lib/rabbitmq/log
		export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none'
	ENV
	chown -R "$(stat -c %u:%g "$(rabbitmq_root "$1")/var/lib/rabbitmq")" "$home"
}

rabbitmq_answers() {
	curl -fsS -m 3 -o /dev/null "http://guest:guest@$(address "$1"):15672/api/overview" 2>/dev/null
}
