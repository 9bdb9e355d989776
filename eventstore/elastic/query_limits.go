package elastic

import "github.com/watershipmq/watership/eventstore"

// queryLimits explains errors of queries that exceed a limit of Elasticsearch, by a part
// of its message (8.19).
func queryLimits() map[string]string {
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

// explainLimit replaces the error of a query that exceeds a limit, and returns any other
// error unchanged.
func explainLimit(operation string, err error) error {
	for text, explanation := range queryLimits() {
		if errorContains(err, text) {
			return &eventstore.Error{Kind: eventstore.BadRequest, Reason: operation + ": the query " + explanation}
		}
	}
	return err
}
