package elastic

import (
	"testing"

	"github.com/watershipmq/watership/eventstore/storetest"
)

func TestAggregationsConform(t *testing.T) {
	storetest.RunAggregations(t, func(t *testing.T) storetest.Aggregations { return installed(t, Config{}) })
}
