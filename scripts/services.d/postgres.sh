# PostgreSQL: Debian's package, with a cluster of its own.
# shellcheck shell=bash disable=SC2154

# postgres_bin prints the folder of the newest PostgreSQL that is installed.
postgres_bin() {
	local bin
	for bin in $(printf '%s\n' /usr/lib/postgresql/*/bin | sort -rV); do
		[[ ! -x $bin/initdb ]] || { echo "$bin" && return; }
	done
}

postgres_packages() {
	[[ -n $(postgres_bin) ]] || packages+=(postgresql)
}

postgres_fetch() {
	: # a package
}

# The cluster has no fsync: its data are worth nothing after a crash of the machine.
postgres_configure() {
	local home=$dir/$1 bin
	bin=$(postgres_bin)
	mkdir -p "$home"
	chown postgres:postgres "$home"
	[[ ! -d $home/data ]] || return 0
	mount_namespace "$home" setpriv --reuid=postgres --regid=postgres --clear-groups env -i PATH="$PATH" LANG=C.UTF-8 \
		"$bin/initdb" --pgdata=/mnt/data --username=watership --auth=trust --encoding=UTF8 --no-sync >>"$dir/logs/$1.log" 2>&1 ||
		die "$1: initdb failed: see $dir/logs/$1.log"
}

# mount_namespace FOLDER COMMAND...: runs a command with the folder at /mnt, which the user
# of the server can read wherever the checkout is.
mount_namespace() {
	# shellcheck disable=SC2016
	unshare --mount --propagation private sh -c 'mount --bind "$0" /mnt && cd /mnt && exec "$@"' "$@"
}

postgres_inside() {
	mount --bind "$dir/$1" /mnt
	cd /mnt
	exec setpriv --reuid=postgres --regid=postgres --clear-groups --inh-caps=-all env -i PATH="$PATH" LANG=C.UTF-8 \
		"$(postgres_bin)/postgres" -D /mnt/data -p "${state[$1_sql]}" -c listen_addresses=127.0.0.1 \
		-c unix_socket_directories= -c fsync=off -c shared_buffers=64MB -c max_connections=200
}

# postgres_answers sends a request for TLS, which a server answers with a letter once it
# accepts connections.
postgres_answers() {
	local answer
	answer=$({
		exec 3<>"/dev/tcp/127.0.0.1/${state[$1_sql]}" || exit 0
		printf '\0\0\0\10\4\322\26\57' >&3
		timeout 3 head -c 1 <&3
	} 2>/dev/null)
	[[ $answer == [NS] ]]
}
