package searches

import (
	"context"
	"net/http"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
)

// The operations on saved searches.
var (
	ListSearches = operation.Declare[struct{}, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/searches", ID: "listSearches", Tag: "searches", Role: access.Viewer,
		Summary: "List the saved searches", Text: "Everybody who may sign in sees their names and queries.",
	})
	SaveSearch = operation.Declare[SaveInput, SearchOutput](operation.Operation{
		Method: http.MethodPost, Path: "/searches", ID: "saveSearch", Tag: "searches", Role: access.Operator,
		Summary: "Save a search under a name", Text: "A search with the same name is replaced.",
	})
	RenameSearch = operation.Declare[RenameInput, SearchOutput](operation.Operation{
		Method: http.MethodPost, Path: "/searches/{id}/rename", ID: "renameSearch", Tag: "searches", Role: access.Operator,
		Summary: "Give a saved search another name",
	})
	DeleteSearch = operation.Declare[DeleteInput, struct{}](operation.Operation{
		Method: http.MethodPost, Path: "/searches/{id}/delete", ID: "deleteSearch", Tag: "searches", Role: access.Operator,
		Summary: "Delete a saved search", Unsigned: true,
	})
)

// Searches is a list of saved searches, sorted by name.
type Searches struct {
	Searches []Search `json:"searches" nullable:"false"`
}

// ListOutput has the searches.
type ListOutput struct{ Body Searches }

// SearchOutput has a search.
type SearchOutput struct{ Body Search }

// SaveInput is the input of SaveSearch.
type SaveInput struct{ Body NewSearch }

// NewSearch is a search to save.
type NewSearch struct {
	Name    string `json:"name" minLength:"1" maxLength:"100" example:"Failures of acme"`
	Address string `json:"address" minLength:"1" maxLength:"6000" doc:"Path and query of the page of the console" example:"/messages?q=headers.tenant%3A+acme"`
}

// RenameInput is the input of RenameSearch.
type RenameInput struct {
	ID   string `path:"id" maxLength:"100" doc:"Id of the search"`
	Body NewName
}

// NewName is another name of a search.
type NewName struct {
	Name string `json:"name" minLength:"1" maxLength:"100"`
}

// DeleteInput is the input of DeleteSearch.
type DeleteInput struct {
	ID string `path:"id" maxLength:"100" doc:"Id of the search"`
}

type operations struct{ Service }

// Implement adds the operations on saved searches to a set.
func Implement(set *operation.Set, sys *system.System) {
	o := operations{Service{sys}}
	operation.Implement(set, ListSearches, o.list)
	operation.Implement(set, SaveSearch, o.save)
	operation.Implement(set, RenameSearch, o.rename)
	operation.Implement(set, DeleteSearch, o.delete)
}

func (o operations) list(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	list, err := o.List(ctx)
	return &ListOutput{Searches{list}}, err
}

func (o operations) save(ctx context.Context, in *SaveInput) (*SearchOutput, error) {
	saved, err := o.Save(ctx, in.Body.Name, in.Body.Address, access.FromContext(ctx).Name)
	return &SearchOutput{saved}, err
}

func (o operations) rename(ctx context.Context, in *RenameInput) (*SearchOutput, error) {
	renamed, err := o.Rename(ctx, in.ID, in.Body.Name, access.FromContext(ctx).Name)
	return &SearchOutput{renamed}, err
}

func (o operations) delete(ctx context.Context, in *DeleteInput) (*struct{}, error) {
	return &struct{}{}, o.Delete(ctx, in.ID)
}
