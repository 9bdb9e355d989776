package elastic

import (
	"testing"

	"github.com/watershipmq/watership/internal/store/storetest"
)

func TestTalliesConform(t *testing.T) {
	storetest.RunTallies(t, func(t *testing.T) storetest.Tallies { return installed(t, Config{}) })
}
