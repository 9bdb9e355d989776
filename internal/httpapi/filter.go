package httpapi

import "github.com/watershipmq/watership/internal/operation/eventfilter"

type (
	// Filter selects events. All criteria must match.
	Filter = eventfilter.Filter

	// QueryFilter is a Filter in the query of a URL.
	QueryFilter = eventfilter.QueryFilter
)
