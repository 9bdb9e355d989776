package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/runfile"
)

// StoreFile returns the path of dev's store.
func StoreFile(data string) string { return filepath.Join(data, "store.db") }

// running is the process with the embedded broker that runs on the data folder.
type running struct {
	instance string // in the server-properties of its broker; "": amqp.url names a broker
	missing  error  // why there is no broker; nil: there is one, or amqp.url names one
}

// findRunning replaces embedded:// with the URL of the broker that runs on the data
// folder. If neither broker nor store nor a secret for one of them is configured, it
// configures both from the data folder, if that has them; after dev has ended, only the
// store. An error refuses the folder.
func findRunning(settings *config.Config) (running, error) {
	chosen := isChosen(settings)
	if chosen && !settings.AMQP.URL.IsEmbedded() {
		return running{}, nil
	}
	process, err := runfile.Read(settings.Data)
	var unsafe *runfile.UnsafeError
	switch {
	case errors.As(err, &unsafe):
		return running{}, fmt.Errorf("%w; set amqp.url and store.url, or another folder with --data", unsafe)
	case nothingRuns(err) && !chosen && !hasStore(settings.Data):
		return running{}, nil
	case err != nil:
		return running{missing: notRunning(settings.Data, err)}, useStoreOfEnded(settings, chosen)
	}
	return running{instance: process.Instance}, useRunning(settings, process, chosen)
}

// isChosen reports whether the configuration names servers, or a secret for servers at
// their default addresses.
func isChosen(cfg *config.Config) bool {
	for _, key := range []string{"amqp.url", "store.url", "amqp.password_file", "store.username", "store.password_file", "store.api_key_file"} {
		if cfg.IsSet(key) {
			return true
		}
	}
	return false
}

func hasStore(data string) bool {
	_, err := os.Stat(StoreFile(data))
	return err == nil
}

// useRunning configures the broker of a process, and its store unless another was
// chosen.
func useRunning(cfg *config.Config, process runfile.Running, chosen bool) error {
	cfg.AMQP.URL = config.NewURL(process.AMQP)
	cfg.AMQP.PasswordFile = "" // the URL has the password
	if !cfg.IsSet("amqp.management_url") {
		cfg.AMQP.ManagementURL = config.NewURL(process.Management)
	}
	if chosen {
		return nil
	}
	if process.Store == "" {
		return inputErrorf("process %d, which runs in %s, has its events in no file: set store.url as it was set there", process.PID, cfg.Data)
	}
	cfg.Store.URL = config.NewURL(process.Store)
	return nil
}

// useStoreOfEnded configures the store of a dev that has ended, unless another was chosen.
func useStoreOfEnded(cfg *config.Config, chosen bool) error {
	cfg.AMQP.URL = config.NewURL(config.Embedded)
	if !cfg.IsSet("amqp.management_url") {
		cfg.AMQP.ManagementURL = config.URL{}
	}
	if chosen {
		return nil
	}
	cfg.Store.URL = config.NewURL("sqlite:" + StoreFile(cfg.Data))
	return runfile.CheckStore(StoreFile(cfg.Data))
}

func notRunning(data string, err error) error {
	folder := data
	if absolute, err := filepath.Abs(data); err == nil {
		folder = absolute
	}
	if nothingRuns(err) {
		return fmt.Errorf("no watership is running here (%s): start `watership dev`", folder)
	}
	return fmt.Errorf("no watership is running here (%s: %w): start `watership dev`", folder, err)
}

func nothingRuns(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, runfile.ErrNotRunning)
}
