package system

import "runtime/debug"

// Version returns the version that the Go toolchain recorded at build time.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Commit returns the commit that the program was built from, and its time (RFC 3339); "" where the Go toolchain
// recorded none, as in a build outside of a clone.
func Commit() (revision, time string) {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "", ""
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.time":
			time = setting.Value
		}
	}
	return revision, time
}
