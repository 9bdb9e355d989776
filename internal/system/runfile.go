package system

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// running is the process with the embedded broker that runs on the data folder.
type running struct {
	instance string // in the server-properties of its broker; "": amqp.url names a broker
	noBroker error  // why none exists; nil: there is one, or amqp.url names one
}

// WithRunning returns the settings that a System uses: with the servers of the process
// that runs on the data folder, unless servers are configured.
func WithRunning(settings config.Config) (config.Config, error) {
	settings, _, err := findRunning(settings)
	return settings, err
}

// findRunning replaces embedded:// with the URL of the broker that runs on the data
// folder. If neither broker nor store nor a secret for one of them is configured, it
// configures both from the data folder, if that has them; after dev has ended, only the
// store. An error refuses the folder.
func findRunning(settings config.Config) (config.Config, running, error) {
	configured := settings.NamesServers()
	if configured && !settings.AMQP.URL.IsEmbedded() {
		return settings, running{}, nil
	}
	process, err := runfile.Read(settings.Data)
	var unsafe *runfile.UnsafeError
	switch {
	case errors.As(err, &unsafe):
		return settings, running{}, fmt.Errorf("%w; set amqp.url and store.url, or another folder for data", unsafe)
	case nothingRuns(err) && !configured && !settings.AMQP.URL.IsEmbedded() && !hasStore(settings.Data):
		return settings, running{}, nil
	case err != nil:
		noBroker := notRunning(settings.Data, err)
		settings, err = withStoreOfEnded(settings, configured)
		return settings, running{noBroker: noBroker}, err
	}
	settings, err = withProcess(settings, process, configured)
	return settings, running{instance: process.Instance}, err
}

func hasStore(data string) bool {
	_, err := os.Stat(runfile.StoreFile(data))
	return err == nil
}

// withProcess returns the settings with the broker of a process, and with its store
// unless another is configured.
func withProcess(settings config.Config, process runfile.Running, configured bool) (config.Config, error) {
	servers := config.Servers{AMQP: config.NewURL(process.AMQP), Management: config.NewURL(process.Management)}
	if !configured {
		if process.Store == "" {
			return settings, InputErrorf("process %d, which runs in %s, has its events in no file: set store.url as it was set there", process.PID, settings.Data)
		}
		servers.Store = config.NewURL(process.Store)
	}
	return settings.WithServers(servers, settings.Data), nil
}

// withStoreOfEnded returns the settings with the store of a dev that has ended, unless
// another is configured.
func withStoreOfEnded(settings config.Config, configured bool) (config.Config, error) {
	servers := config.Servers{AMQP: config.NewURL(config.Embedded)}
	if configured {
		return settings.WithServers(servers, settings.Data), nil
	}
	servers.Store = config.NewURL("sqlite:" + runfile.StoreFile(settings.Data))
	return settings.WithServers(servers, settings.Data), runfile.CheckStore(runfile.StoreFile(settings.Data), settings.Redact.SubjectKeysFile)
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
