// Package simulation runs a whole system in one synctest bubble: several processes of serve,
// publishers and consumers on one broker and one store, with faults. All randomness comes from a
// seed, so that a failure can be repeated.
package simulation
