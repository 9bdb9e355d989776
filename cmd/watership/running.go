package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/watershipmq/watership/internal/config"
)

// running is how a process with an embedded broker lets other commands find it:
// a file in the data folder, for as long as it runs.
type running struct {
	PID        int    `json:"pid"`
	AMQP       string `json:"amqp"`
	Management string `json:"management"`
	Store      string `json:"store"`
}

func runningFile(data string) string { return filepath.Join(data, "running.json") }

// storeFile is where dev keeps events.
func storeFile(data string) string { return filepath.Join(data, "store.db") }

// find puts in place of embedded:// the broker that runs; its error is why there
// is none. Where neither broker nor store is configured and the data folder has
// them, they are meant: of a dev that has ended, the store.
func find(cfg *config.Config) error {
	given := cfg.Given("amqp.url") || cfg.Given("store.url")
	if given && !cfg.AMQP.URL.IsEmbedded() {
		return nil
	}
	r, err := readRunning(cfg.Data)
	if err != nil {
		if !given && errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Stat(storeFile(cfg.Data)); err != nil {
				return nil
			}
			r.Store = "sqlite:" + storeFile(cfg.Data)
		}
		cfg.AMQP.URL = config.NewURL(config.Embedded)
		err = notRunning(cfg.Data, err)
	} else {
		cfg.AMQP.URL = config.NewURL(r.AMQP)
	}
	if cfg.AMQP.ManagementURL.IsZero() || !cfg.Given("amqp.management_url") {
		cfg.AMQP.ManagementURL = config.NewURL(r.Management)
	}
	if !given && r.Store != "" {
		cfg.Store.URL = config.NewURL(r.Store)
	}
	return err
}

func notRunning(data string, err error) error {
	folder := data
	if absolute, err := filepath.Abs(data); err == nil {
		folder = absolute
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no watership is running here (%s): start `watership dev`", folder)
	}
	return fmt.Errorf("no watership is running here (%s: %w): start `watership dev`", folder, err)
}

const dialPatience = 2 * time.Second

// readRunning fails where nobody listens any more; what the file says is given
// all the same.
func readRunning(data string) (running, error) {
	var r running
	text, err := os.ReadFile(runningFile(data))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s cannot be read: %w", filepath.Base(runningFile(data)), err)
	}
	address, err := url.Parse(r.AMQP)
	if err != nil {
		return r, fmt.Errorf("%s names no broker", filepath.Base(runningFile(data)))
	}
	conn, err := net.DialTimeout("tcp", address.Host, dialPatience)
	if err != nil {
		return r, fmt.Errorf("process %d is gone", r.PID)
	}
	return r, conn.Close()
}

// announce writes the file; it is complete or absent for whoever reads it.
func (r running) announce(data string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	partial := runningFile(data) + ".new"
	if err := os.WriteFile(partial, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("saying in the data folder what runs: %w", err)
	}
	return os.Rename(partial, runningFile(data))
}
