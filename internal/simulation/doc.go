// Package simulation runs a whole system in one synctest bubble: several processes of serve,
// publishers, an operator and a broker with one store, with faults. All randomness comes from a
// seed. In the runtime of package goruntime a seed gives one run; in Go's own, the order of what
// happens at one moment may differ.
package simulation
