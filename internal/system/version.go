package system

import "runtime/debug"

// Version returns the version that the Go toolchain recorded at build time.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
