package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/runfile"
)

// storeFile returns the path of dev's store.
func storeFile(data string) string { return filepath.Join(data, "store.db") }

// local is the embedded broker of another process, which a command uses.
type local struct {
	instance string // in its server-properties; "": amqp.url names a broker
	away     error  // why there is none; nil: there is one, or amqp.url names one
}

// find replaces embedded:// with the URL of the broker that runs on the data folder.
// If neither broker nor store nor a secret for one of them is configured, it takes
// both from the data folder, if that has them; of a dev that has ended, the store. An
// error refuses the folder.
func find(cfg *config.Config) (local, error) {
	chosen := isChosen(cfg)
	if chosen && !cfg.AMQP.URL.IsEmbedded() {
		return local{}, nil
	}
	running, err := runfile.Read(cfg.Data)
	var unsafe *runfile.UnsafeError
	switch {
	case errors.As(err, &unsafe):
		return local{}, fmt.Errorf("%w; set amqp.url and store.url, or another folder with --data", unsafe)
	case nothingRuns(err) && !chosen && !hasStore(cfg.Data):
		return local{}, nil
	case err != nil:
		return local{away: notRunning(cfg.Data, err)}, useEnded(cfg, chosen)
	}
	return local{instance: running.Instance}, use(cfg, running, chosen)
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
	_, err := os.Stat(storeFile(data))
	return err == nil
}

// use configures the running broker, and its store unless another was chosen.
func use(cfg *config.Config, running runfile.Running, chosen bool) error {
	cfg.AMQP.URL = config.NewURL(running.AMQP)
	cfg.AMQP.PasswordFile = "" // the URL has the password
	if !cfg.IsSet("amqp.management_url") {
		cfg.AMQP.ManagementURL = config.NewURL(running.Management)
	}
	if chosen {
		return nil
	}
	if running.Store == "" {
		return usagef("process %d, which runs in %s, has its events in no file: set store.url as it was set there", running.PID, cfg.Data)
	}
	cfg.Store.URL = config.NewURL(running.Store)
	return nil
}

// useEnded configures the store of a dev that has ended, unless another was chosen.
func useEnded(cfg *config.Config, chosen bool) error {
	cfg.AMQP.URL = config.NewURL(config.Embedded)
	if !cfg.IsSet("amqp.management_url") {
		cfg.AMQP.ManagementURL = config.URL{}
	}
	if chosen {
		return nil
	}
	cfg.Store.URL = config.NewURL("sqlite:" + storeFile(cfg.Data))
	return runfile.CheckStore(storeFile(cfg.Data))
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
