// Package simulation runs a whole system in one synctest bubble: several processes of serve,
// publishers and consumers on one broker and one store, with faults. All randomness comes from a
// seed, which repeats the faults and the decisions of handlers; the order of what happens at one
// moment may differ.
package simulation
