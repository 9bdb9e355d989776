# Elasticsearch: the distribution of its own integration tests, which is the real server
# with few modules.
# shellcheck shell=bash disable=SC2154

elasticsearch_version=8.19.7
elasticsearch_uid=9200 # it refuses to run as root; the account does not have to exist

# In elasticsearch8tls the user admin has all privileges, and watership has the role that a
# test writes to roles.yml. Both have the password below; its hash is bcrypt's.
elasticsearch_password=adminpassword
# shellcheck disable=SC2016
elasticsearch_hash='$2a$10$MHgZDqZgBibssEtPYnVmPuB2DCpSAG3/oThT/HLt4PfICVcdpxF0.'

elasticsearch_dist() {
	echo "$cache/elasticsearch-$elasticsearch_version"
}

elasticsearch_packages() {
	command -v openssl >/dev/null || packages+=(openssl)
	[[ -n $(java_home) ]] || packages+=(default-jre-headless)
	[[ ! -d $(elasticsearch_dist) ]] || return 0
	command -v mvn >/dev/null || packages+=(maven)
	command -v unzip >/dev/null || packages+=(unzip)
}

# java_home prints the home of the first Java of version 17 or later.
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
		die "elasticsearch: the download with mvn failed (see $log); retry, or set WATERSHIP_TEST_STORE_URL"
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
	local home=$dir/$1
	mkdir -p "$home/config" "$home/data" "$home/logs" "$home/tmp"
	cp -r "$(elasticsearch_dist)"/config/. "$home/config"
	cat >"$home/config/elasticsearch.yml" <<-YML
		cluster.name: watership-test
		node.name: test
		discovery.type: single-node
		network.host: 127.0.0.1
		http.port: ${state[$1_http]}
		transport.port: ${state[$1_transport]}
		path.data: /mnt/node/data
		path.logs: /mnt/node/logs
		cluster.routing.allocation.disk.threshold_enabled: false
		cluster.max_shards_per_node: 5000
	YML
	if [[ $1 == elasticsearch8tls ]]; then
		elasticsearch_secure "$home/config"
	else
		echo "xpack.security.enabled: false" >>"$home/config/elasticsearch.yml"
	fi
	chown -R $elasticsearch_uid:$elasticsearch_uid "$home"
}

# elasticsearch_secure CONFIG: adds users, and TLS with a private certificate authority.
# Clients need a certificate of this authority.
elasticsearch_secure() {
	cat >>"$1/elasticsearch.yml" <<-YML
		xpack.security.enabled: true
		xpack.security.autoconfiguration.enabled: false
		xpack.security.http.ssl:
		  enabled: true
		  key: server.key
		  certificate: server.crt
		  certificate_authorities: [ca.crt]
		  client_authentication: required
	YML
	printf '%s:%s\n' admin "$elasticsearch_hash" watership "$elasticsearch_hash" >"$1/users"
	printf '%s\n' superuser:admin watership:watership >"$1/users_roles"
	echo "$elasticsearch_password" >"$1/password"
	(
		cd "$1"
		openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=watership-test-ca
		for name in server client; do
			openssl req -newkey rsa:2048 -nodes -keyout "$name.key" -out "$name.csr" -subj "/CN=$name"
			openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$name.crt" -days 30 \
				-extfile <(echo "subjectAltName=IP:127.0.0.1,DNS:localhost")
		done
	) >/dev/null 2>&1
}

# elasticsearch_inside mounts everything under /mnt, which Elasticsearch's user can read
# wherever the checkout is.
elasticsearch_inside() {
	# The optimizing compiler needs more CPU time than it saves in the half hour of the tests.
	local heap=${WATERSHIP_TEST_STORE_HEAP:-1g} compiler=${WATERSHIP_TEST_STORE_COMPILER--XX:TieredStopAtLevel=1} java
	[[ $1 != elasticsearch8tls ]] || heap=512m
	java=$(java_home)
	mount -t tmpfs tmpfs /mnt
	mkdir /mnt/dist /mnt/node
	mount --bind "$(elasticsearch_dist)" /mnt/dist
	mount -o remount,bind,ro /mnt/dist
	mount --bind "$dir/$1" /mnt/node
	mount -t proc proc /proc
	exec env -i PATH="$PATH" HOME=/mnt/node ES_JAVA_HOME="$java" ES_PATH_CONF=/mnt/node/config \
		ES_TMPDIR=/mnt/node/tmp ES_JAVA_OPTS="-Xms$heap -Xmx$heap $compiler" \
		setpriv --reuid=$elasticsearch_uid --regid=$elasticsearch_uid --clear-groups --inh-caps=-all \
		/mnt/dist/bin/elasticsearch
}

elasticsearch_answers() {
	local login=()
	[[ $1 != elasticsearch8tls ]] || login=(--cacert "$dir/$1/config/ca.crt" --cert "$dir/$1/config/client.crt" --key "$dir/$1/config/client.key" --user "admin:$elasticsearch_password")
	curl -fsS -m 5 -o /dev/null "${login[@]}" "$(url "$1")/_cluster/health?wait_for_status=yellow&timeout=2s" 2>/dev/null
}
