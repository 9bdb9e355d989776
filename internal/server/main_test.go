package server_test

import (
	"os"
	"testing"

	"github.com/watershipmq/watership/internal/server/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.WithBuilds(m)) }
