# A node of an Elasticsearch cluster. Functions that have a name of
# scripts/services.d/elasticsearch.sh replace those for a single node.
# shellcheck shell=bash disable=SC2154

export WATERSHIP_TEST_STORE_HEAP=${WATERSHIP_TEST_STORE_HEAP:-512m}

elasticsearch_configure() {
	local home=$dir/$1
	[[ ! -d $home/config ]] || return 0
	mkdir -p "$home/config" "$home/data" "$home/logs" "$home/tmp"
	cp -r "$(elasticsearch_dist)"/config/. "$home/config"
	cat >"$home/config/elasticsearch.yml" <<-YML
		cluster.name: cluster
		node.name: $1
		network.host: $(address "$1")
		discovery.seed_hosts: [elasticsearch1, elasticsearch2, elasticsearch3]
		cluster.initial_master_nodes: [elasticsearch1, elasticsearch2, elasticsearch3]
		path.data: /mnt/node/data
		path.logs: /mnt/node/logs
		cluster.routing.allocation.disk.threshold_enabled: false
		xpack.security.enabled: false
	YML
	chown -R "$elasticsearch_uid:$elasticsearch_uid" "$home"
}

# elasticsearch_answers: the node is in a cluster that has a master.
elasticsearch_answers() {
	curl -fsS -m 5 "http://$(address "$1"):9200/_cluster/health" 2>/dev/null | grep -q '"number_of_nodes":[23]'
}
