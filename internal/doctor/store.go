package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore/elastic"
)

func (d *doctor) checkStore(ctx context.Context) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	store, err := d.OpenStore(ctx)
	if err != nil {
		d.say("store", Wrong, err.Error(), "set store.url")
		return
	}
	d.store = store
	if !d.mayUseStore(ctx) {
		return
	}
	there, err := store.Clock(ctx)
	if err != nil {
		d.say("store", Wrong, err.Error(), d.storeRemedy())
		return
	}
	d.fine("store", "%s answers at %s", d.StoreKind, d.Settings.Store.URL)
	d.checkClock(d.StoreKind, there)
	if err := IndexHealth(ctx, store); err != nil {
		d.say("indices", Wrong, err.Error(), "make room on the disks of Elasticsearch, or nodes that may have it; GET _cluster/allocation/explain has the whole")
		return
	}
	if err := store.Check(ctx); err != nil {
		d.say("templates", Wrong, err.Error(), "run watership setup")
		return
	}
	d.fine("templates", "there for %s-*", d.Settings.Store.Stream)
}

// mayUseStore checks the privileges of the login first: without some of them
// Elasticsearch answers a search with no documents instead of an error. It reports
// nothing where security is off.
func (d *doctor) mayUseStore(ctx context.Context) bool {
	secured, asks := d.store.(interface {
		Login(ctx context.Context) (elastic.Login, error)
	})
	if !asks {
		return true
	}
	login, err := secured.Login(ctx)
	switch {
	case err != nil:
		d.say("store", Wrong, err.Error(), d.storeRemedy())
	case len(login.Lacks) > 0:
		d.say("rights", Wrong, fmt.Sprintf("user %s lacks %s", login.User, strings.Join(login.Lacks, "; ")),
			"add it to the role in Elasticsearch: docs/security.md has the whole")
	case login.User != "":
		d.fine("rights", "user %s has those of docs/security.md", login.User)
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

func (d *doctor) storeRemedy() string {
	if d.Settings.Store.URL.File() != "" {
		return "run watership setup, or set store.url to the file that is meant"
	}
	return "start Elasticsearch, or set store.url with a user that may read and write " + d.Settings.Store.Stream + "-*"
}
