//go:build !goruntime

package simulation

// useClock changes nothing: in Go's own runtime all goroutines of a bubble have one clock.
func useClock(*int64) (before *int64) { return nil }
