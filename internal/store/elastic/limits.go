package elastic

import "github.com/watershipmq/watership/schemas"

// limits of Elasticsearch that a query can go beyond, by its words for them, and
// what to do then (8.19).
func limits() map[string]string {
	const value = "asks for a value that is longer than any that can be found: "
	const pattern = "has a wildcard in a longer value than Elasticsearch takes: ask for a shorter beginning"
	return map[string]string{
		"longer than maximum indexable length": value + "at most 32,766 bytes, but in texts such as body.text",
		"automaton is too large":               pattern,
		"Determinizing automaton":              pattern,
		"length of prefix":                     pattern,
		"maxClauseCount":                       "has too many parts: name the field of each word, since one without is looked for in every field, or ask in several queries",
		"maximum nested depth":                 "has too many conditions within one another: ask in several queries",
	}
}

// beyondLimit says in plain words what is wrong with a query that goes beyond one
// of the limits. Other errors stay.
func beyondLimit(doing string, err error) error {
	for theirs, ours := range limits() {
		if says(err, theirs) {
			return &schemas.StoreError{Kind: schemas.StoreRefused, Reason: doing + ": the query " + ours}
		}
	}
	return err
}
