# RabbitMQ of a Debian release, in a root directory of that release. The root is a
# read-only cache: brokers write only to .services.
# shellcheck shell=bash disable=SC2154

rabbitmq_suite() {
	case $1 in
	rabbitmq3) echo bookworm ;; # 3.10.8
	rabbitmq4) echo trixie ;;   # 4.0.5
	rabbitmq43) echo sid ;;     # 4.3, or the version at the time of the download
	esac
}

rabbitmq_root() {
	echo "$cache/rabbitmq-$(rabbitmq_suite "$1")"
}

rabbitmq_packages() {
	[[ -d $(rabbitmq_root "$1") ]] || command -v debootstrap >/dev/null || packages+=(debootstrap)
	command -v openssl >/dev/null || packages+=(openssl)
}

rabbitmq_fetch() {
	local suite log="$dir/logs/$1-fetch.log"
	suite=$(rabbitmq_suite "$1")
	fetch_once "$(rabbitmq_root "$1")" "$1 (Debian $suite)" "$log" debian_root "$suite" ||
		die "$1: debootstrap of Debian $suite failed (see $log); retry, or set WATERSHIP_TEST_AMQP_URL"
}

# debian_root runs debootstrap in namespaces, so that its mounts and daemons end with it.
debian_root() {
	local mirror http_proxy=${http_proxy:-}
	mirror=$(debian_mirror)
	[[ -n $http_proxy ]] || eval "$(apt-config shell http_proxy Acquire::http::Proxy)"
	export http_proxy
	unshare --mount --propagation private --pid --fork --mount-proc \
		debootstrap --variant=minbase --include=rabbitmq-server "$1" "$2" "$mirror" &&
		rm -rf "$2/var/cache/apt/archives" "$2/var/lib/apt/lists" "$2"/var/lib/rabbitmq/{*,.[!.]*} &&
		touch "$2/etc/hosts"
}

# debian_mirror prints the mirror of this machine's apt.
debian_mirror() {
	local codename
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
		awk -v release="$codename" '$2 == release && $3 == "main" && !n++ { print $1 }'
}

rabbitmq_configure() {
	local home=$dir/$1
	mkdir -p "$home"
	{
		cat "$parts/rabbitmq.conf"
		echo "listeners.tcp.1 = 127.0.0.1:${state[$1_amqp]}"
		echo "management.tcp.ip = 127.0.0.1"
		echo "management.tcp.port = ${state[$1_management]}"
		echo "log.console = true"
		echo "log.console.use_colors = off"
		echo "log.file = false"
		rabbitmq_tls "$1"
	} >"$home/rabbitmq.conf"
	cp "$parts/enabled_plugins" "$home/enabled_plugins"
	# The schedulers do not spin while idle: the servers share few cores.
	cat >"$home/env" <<-ENV
		export HOME=/var/lib/rabbitmq LANG=C.UTF-8
		export RABBITMQ_NODENAME=$1@localhost
		export RABBITMQ_CONFIG_FILE=/var/lib/rabbitmq/rabbitmq.conf
		export RABBITMQ_ENABLED_PLUGINS_FILE=/var/lib/rabbitmq/enabled_plugins
		export RABBITMQ_MNESIA_BASE=/var/lib/rabbitmq/mnesia
		export RABBITMQ_LOG_BASE=/var/lib/rabbitmq/log
		export RABBITMQ_DIST_PORT=${state[$1_dist]}
		export ERL_EPMD_PORT=${state[$1_epmd]} ERL_EPMD_ADDRESS=127.0.0.1
		export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}'
	ENV
	chown -R "$(stat -c %u:%g "$(rabbitmq_root "$1")/var/lib/rabbitmq")" "$home"
}

# rabbitmq_tls NAME: prints the configuration of the TLS listener, if the broker has one.
rabbitmq_tls() {
	[[ -n ${state[$1_amqps]:-} ]] || return 0
	make_certificates
	cp -r "$(tls_dir)" "$dir/$1/"
	sed -e "s#^listeners.ssl.default = .*#listeners.ssl.1 = 127.0.0.1:${state[$1_amqps]}#" \
		-e 's#/tls/#/var/lib/rabbitmq/tls/#' "$parts/rabbitmq-tls.conf"
}

rabbitmq_inside() {
	local root
	root=$(rabbitmq_root "$1")
	mount --bind "$root" "$root"
	mount -o remount,bind,ro "$root"
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	mount -t tmpfs tmpfs "$root/tmp"
	mount --bind /etc/hosts "$root/etc/hosts"
	mount --bind "$dir/$1" "$root/var/lib/rabbitmq"
	rabbitmq_program "$1" rabbitmq-server
	exec "${program[@]}"
}

# rabbitmq_program NAME PROGRAM ARGUMENT...: sets program to the command line that runs one
# of RabbitMQ's programs in the broker's root, as its user, in its environment.
rabbitmq_program() {
	# shellcheck disable=SC2016
	program=(
		env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin
		chroot "$(rabbitmq_root "$1")"
		setpriv --reuid=rabbitmq --regid=rabbitmq --clear-groups --inh-caps=-all
		/bin/sh -c '. /var/lib/rabbitmq/env && exec "/usr/lib/rabbitmq/bin/$0" "$@"' "${@:2}"
	)
}

# rabbitmq_answers checks the management API, then the first frame of an AMQP handshake.
rabbitmq_answers() {
	local frame
	curl -fsS -m 3 -o /dev/null "$(management_url "$1")/api/overview" 2>/dev/null || return 1
	frame=$(
		exec 3<>"/dev/tcp/127.0.0.1/${state[$1_amqp]}" || exit 0
		printf 'AMQP\0\0\11\1' >&3
		timeout 3 head -c 1 <&3 | od -An -tx1
	) 2>/dev/null
	[[ $frame == *01* ]]
}
