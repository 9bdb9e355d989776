# Elasticsearch: the distribution that its own integration tests run, which
# is the real server with few modules.
# shellcheck shell=bash disable=SC2154

elasticsearch_version=8.19.7
elasticsearch_uid=9200 # it refuses to be root; no such account need exist

elasticsearch_dist() {
	echo "$cache/elasticsearch-$elasticsearch_version"
}

elasticsearch_packages() {
	[[ -n $(java_home) ]] || packages+=(default-jre-headless)
	[[ ! -d $(elasticsearch_dist) ]] || return 0
	command -v mvn >/dev/null || packages+=(maven)
	command -v unzip >/dev/null || packages+=(unzip)
}

# The first Java that is 17 or later.
java_home() {
	local home version
	for home in "${JAVA_HOME:-}" "$(readlink -f "$(command -v java)" | sed 's|/bin/java$||')" /usr/lib/jvm/*; do
		[[ -x $home/bin/java && -r $home/release ]] || continue
		version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release")
		if ((${version:-0} >= 17)); then
			readlink -f "$home"
			return
		fi
	done
}

elasticsearch_fetch() {
	local log="$dir/logs/elasticsearch-fetch.log"
	fetch_once "$(elasticsearch_dist)" "elasticsearch $elasticsearch_version" "$log" elasticsearch_download ||
		die "elasticsearch: its download by mvn failed (see $log); or set WATERSHIP_TEST_STORE_URL"
}

elasticsearch_download() {
	local group=org.elasticsearch.distribution.integ-test-zip version=$elasticsearch_version
	mkdir "$1" && (cd "$1" && mvn -q -B -Dmaven.repo.local="$1/m2" \
		org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get \
		-Dtransitive=false -Dartifact="$group:elasticsearch:$version:zip") &&
		unzip -q "$1/m2/${group//.//}/elasticsearch/$version/elasticsearch-$version.zip" -d "$1" &&
		mv "$1/elasticsearch-$version"/* "$1" &&
		rm -r "$1/m2" "$1/elasticsearch-$version" &&
		chmod -R a+rX "$1"
}

elasticsearch_configure() {
	local home=$dir/elasticsearch
	mkdir -p "$home/config" "$home/data" "$home/logs" "$home/tmp"
	cp -r "$(elasticsearch_dist)"/config/. "$home/config"
	cat >"$home/config/elasticsearch.yml" <<-YML
		cluster.name: watership-test
		node.name: test
		discovery.type: single-node
		network.host: 127.0.0.1
		http.port: ${state[elasticsearch_http]}
		transport.port: ${state[elasticsearch_transport]}
		path.data: /mnt/node/data
		path.logs: /mnt/node/logs
		xpack.security.enabled: false
		cluster.routing.allocation.disk.threshold_enabled: false
		cluster.max_shards_per_node: 5000
	YML
	chown -R $elasticsearch_uid:$elasticsearch_uid "$home"
}

# Under /mnt, which its user can reach wherever the checkout is.
elasticsearch_inside() {
	local heap=${WATERSHIP_TEST_STORE_HEAP:-1g} java
	java=$(java_home)
	mount -t tmpfs tmpfs /mnt
	mkdir /mnt/dist /mnt/node
	mount --bind "$(elasticsearch_dist)" /mnt/dist
	mount -o remount,bind,ro /mnt/dist
	mount --bind "$dir/elasticsearch" /mnt/node
	mount -t proc proc /proc
	exec env -i PATH="$PATH" HOME=/mnt/node ES_JAVA_HOME="$java" ES_PATH_CONF=/mnt/node/config \
		ES_TMPDIR=/mnt/node/tmp ES_JAVA_OPTS="-Xms$heap -Xmx$heap" \
		setpriv --reuid=$elasticsearch_uid --regid=$elasticsearch_uid --clear-groups --inh-caps=-all \
		/mnt/dist/bin/elasticsearch
}

elasticsearch_answers() {
	curl -fsS -m 5 -o /dev/null "$(url elasticsearch)/_cluster/health?wait_for_status=yellow&timeout=2s" 2>/dev/null
}
