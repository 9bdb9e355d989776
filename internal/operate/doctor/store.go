package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/privacy"
)

func (d *doctor) checkStore(ctx context.Context) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	store, err := d.OpenStore(ctx)
	if err != nil {
		d.report(StoreUnreachable, Error, err.Error(), "set store.url")
		return
	}
	d.store = store
	if !d.checkPrivileges(ctx) {
		return
	}
	clock, err := store.Clock(ctx)
	if err != nil {
		d.reportNoStore(err)
		return
	}
	if d.readsSubjectKeys(ctx) {
		d.reportOK(StoreCheck, "%s answers at %s", store.Product(), d.Settings.Store.URL)
	}
	d.checkClock(store.Product(), clock)
	if err := IndexHealth(ctx, store); err != nil {
		d.report(IndicesUnavailable, Error, err.Error(), "make room on the disks of "+store.Product()+", or nodes that may have it; GET _cluster/allocation/explain has the whole")
		return
	}
	if err := store.Check(ctx); err != nil {
		d.report(TemplatesOutdated, Error, err.Error(), "run watership setup")
		return
	}
	d.reportOK(TemplatesCheck, "installed for %s-*", d.Settings.Store.Stream)
}

// readsSubjectKeys reports whether the store reads keys of subjects, without which no message about one is recorded.
func (d *doctor) readsSubjectKeys(ctx context.Context) bool {
	keys, has := d.store.(privacy.SubjectKeys)
	if !has || !slices.ContainsFunc(d.Settings.Redact.Rules, func(rule privacy.Rule) bool { return rule.Subject }) {
		return true
	}
	_, err := keys.SubjectKeys(ctx, []string{"none"})
	if err != nil {
		d.report(SubjectKeysUnreadable, Error, err.Error(), "make the file or the index of keys readable again: messages about persons wait in RabbitMQ until then; see docs/privacy.md")
	}
	return err == nil
}

// checkPrivileges checks the privileges of the login first: without some of them
// Elasticsearch answers a search with no documents instead of an error. It reports
// nothing where security is off.
func (d *doctor) checkPrivileges(ctx context.Context) bool {
	secured, asks := d.store.(interface {
		Login(ctx context.Context) (elastic.Login, error)
	})
	if !asks {
		return true
	}
	login, err := secured.Login(ctx)
	switch {
	case err != nil:
		d.reportNoStore(err)
	case len(login.Lacks) > 0:
		d.report(StoreRightsMissing, Error, fmt.Sprintf("user %s lacks %s", login.User, strings.Join(login.Lacks, "; ")),
			"add it to the role in Elasticsearch: docs/permissions.md has the whole")
	case login.User != "":
		d.reportOK(RightsCheck, "user %s has those of docs/permissions.md", login.User)
	}
	return err == nil && len(login.Lacks) == 0
}

// IndexHealth asks Elasticsearch whether Watership's indices can store documents, which
// templates and settings do not show.
func IndexHealth(ctx context.Context, store any) error {
	if indices, asks := store.(interface {
		Health(ctx context.Context) error
	}); asks {
		return indices.Health(ctx)
	}
	return nil
}

// reportNoStore reports a store that does not answer, which no further check asks.
func (d *doctor) reportNoStore(err error) {
	d.report(StoreUnreachable, Error, err.Error(), d.storeRemedy(err))
	d.store = nil
}

func (c Config) storeRemedy(err error) string {
	if errors.Is(err, elastic.ErrNotElasticsearch) {
		return "correct the host and the port in store.url: another server answers there"
	}
	if file := c.Settings.Store.URL.File(); file != "" {
		folder := filepath.Dir(file)
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return fmt.Sprintf("make the folder %s and run watership setup, or set store.url to the file that is meant", wording.Quoted(folder))
		}
		return "run watership setup, or set store.url to the file that is meant"
	}
	return "start Elasticsearch, or set store.url with a user that may read and write " + c.Settings.Store.Stream + "-*"
}
