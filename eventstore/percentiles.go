package eventstore

// Percentiles summarizes a number of the events of a selection, such as a time in
// nanoseconds. P95 is the smallest value that 95 percent of the values do not exceed, to
// within a hundredth of it. Without a value all are 0.
type Percentiles struct {
	Count         int64 // events that have the field
	P50, P95, P99 int64
	Max           int64
}

// PercentilesBy has the percentiles of fields for each value of another field.
type PercentilesBy struct {
	Values []ValuePercentiles // the most frequent values, most frequent first
	Others int64              // events with values that are not in Values
}

// ValuePercentiles are the percentiles of the events with one value.
type ValuePercentiles struct {
	Text   string
	Count  int64         // of all events with the value
	Fields []Percentiles // one for each field, in the order of the call
}
