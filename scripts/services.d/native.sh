# Servers without a container engine: Debian, as root.
#
# Each server has its own mount and process namespace. Its mounts and all its
# processes (epmd, launchers) end with its first process, so one recorded pid is enough to
# stop it completely. The network is the machine's loopback.
# shellcheck shell=bash disable=SC2154

native_tools() {
	unshare --mount --pid --fork true 2>/dev/null ||
		die "no permission to mount: use a privileged container, or set WATERSHIP_TEST_AMQP_URL and WATERSHIP_TEST_STORE_URL"
	local packages=() name
	command -v curl >/dev/null || packages+=(curl)
	for name in "$@"; do
		"${name%%[0-9]*}_packages" "$name"
	done
	((${#packages[@]} > 0)) || return 0
	mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
	echo "services: installing ${packages[*]}"
	{
		apt-get update -q &&
			DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
	} >"$dir/logs/apt.log" 2>&1 || die "apt-get could not install ${packages[*]} (see $dir/logs/apt.log)"
}

# native_memory puts the data of all servers into memory if there is much, so that tests wait for no
# disk. They outlive the servers, and are worth nothing after a crash of the machine.
native_memory() {
	local shm=/dev/shm free
	rm -f "$dir" # of before the machine was started
	free=$(awk '/^MemAvailable/ { print int($2 / 1024 / 1024) }' /proc/meminfo)
	((free >= 14 && $(df --output=avail -k "$shm" | tail -1) >= 8 * 1024 * 1024)) || return 0
	! findmnt -no OPTIONS "$shm" | grep -q noexec || return 0 # the JVM loads libraries from its folder
	shm+=/watership-$(cksum <<<"$dir" | cut -d' ' -f1)
	rm -rf "$shm"
	mkdir -m 755 "$shm"
	ln -s "$shm" "$dir"
}

native_fetch() {
	"${1%%[0-9]*}_fetch" "$1"
}

# fetch_once DIRECTORY NAME LOG COMMAND...: runs the command to create the directory,
# unless it is cached. The lock protects the cache, which all checkouts share.
fetch_once() {
	local failed=0
	mkdir -p "$cache"
	exec 7>"$1.lock"
	flock 7
	if [[ ! -d $1 ]]; then
		echo "services: fetching $2, once"
		rm -rf "$1.new"
		{ "${@:4}" "$1.new" && mv "$1.new" "$1"; } >"$3" 2>&1 || failed=1
	fi
	exec 7>&-
	return "$failed"
}

native_start() {
	rm -f "$dir/$1.pid"
	"${1%%[0-9]*}_configure" "$1"
	setsid unshare --mount --propagation private --pid --fork "$self" inside "$1" \
		</dev/null >>"$dir/logs/$1.log" 2>&1 8>&- 9<&- &
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		[[ ! -s $dir/$1.pid ]] || return 0
		sleep 0.05
	done
	die "$1 did not start: see $dir/logs/$1.log"
}

# native_inside is the first process in the namespaces, and becomes the server. /proc is
# still the machine's, so the pid in it is the one that other processes can signal.
native_inside() {
	local pid
	read -r pid _ </proc/self/stat
	identity "$pid" >"$dir/$1.pid.new"
	mv "$dir/$1.pid.new" "$dir/$1.pid"
	ulimit -n 65536 2>/dev/null || true
	cd /
	"${1%%[0-9]*}_inside" "$1"
}

# identity prints a pid with its start time and boot id, which distinguish the process from
# a later one with the same pid.
identity() {
	local stat fields boot
	{ stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
	boot=$(</proc/sys/kernel/random/boot_id)
	read -ra fields <<<"${stat##*) }" # fields after the name: 0 is the state, 19 the start time
	[[ ${fields[0]} != Z ]] || return 1
	echo "$1 ${fields[19]} $boot"
}

native_alive() {
	local recorded
	[[ -s $dir/$1.pid ]] || return 1
	recorded=$(<"$dir/$1.pid")
	[[ $(identity "${recorded%% *}") == "$recorded" ]]
}

# native_signal NAME SIGNAL SECONDS: sends the signal, and waits until the server has ended.
native_signal() {
	local recorded deadline=$((SECONDS + $3))
	native_alive "$1" || return 0
	recorded=$(<"$dir/$1.pid")
	kill -s "$2" "${recorded%% *}" 2>/dev/null || true
	while native_alive "$1"; do
		((SECONDS < deadline)) || return 1
		sleep 0.1
	done
}

native_kill() {
	native_signal "$1" KILL 30 || die "$1 does not stop"
}

native_stop() {
	native_signal "$1" TERM 60 || native_kill "$1"
}

native_down() {
	local file name
	for file in "$dir"/*.pid; do
		[[ -e $file ]] || continue
		name=$(basename "$file" .pid)
		native_kill "$name"
	done
}

# native_ctl NAME ...: runs rabbitmqctl in the namespaces of the broker.
native_ctl() {
	local recorded
	native_alive "$1" || die "$1 is down"
	recorded=$(<"$dir/$1.pid")
	rabbitmq_program "$1" rabbitmqctl "${@:2}"
	nsenter --target "${recorded%% *}" --mount --pid -- "${program[@]}"
}
