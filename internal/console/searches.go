package console

import (
	"net/http"
	"net/url"

	"github.com/watershipmq/watership/internal/console/frame"
	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/operation/problem"
)

const searchesPath = "/searches"

// searchesView is the page of the saved searches.
type searchesView struct {
	Searches []searches.Search
	Done     string
	Problem  *problem.Problem
}

// searches lists the saved searches, to rename and delete them.
func (c searchPages) searches(r *http.Request) (frame.Response, error) {
	done, _ := c.DoneBefore(r)
	return c.searchesPage(r, searchesView{Done: done.Get("done")})
}

func (c searchPages) searchesPage(r *http.Request, v searchesView) (frame.Response, error) {
	found, err := searches.ListSearches.Call(r.Context(), c.api, struct{}{})
	if err != nil {
		return nil, err
	}
	v.Searches = found.Body.Searches
	made := frame.Page{Title: "Saved searches", Section: messagesPath, Template: "searches.html", Data: v, Styles: []string{"messages.css"}}
	if v.Problem != nil {
		made.Status = v.Problem.Status
	}
	return made, nil
}

// saveSearch saves the page from which a form came, and goes back there.
func (c searchPages) saveSearch(r *http.Request) (frame.Response, error) {
	address := r.PostForm.Get("address")
	in := searches.SaveInput{Body: searches.NewSearch{Name: r.PostForm.Get("name"), Address: address}}
	if _, err := searches.SaveSearch.Call(r.Context(), c.api, in); err != nil {
		return c.searchesPage(r, searchesView{Problem: frame.ProblemOf(err)})
	}
	return frame.Redirect(address), nil
}

func (c searchPages) renameSearch(r *http.Request) (frame.Response, error) {
	in := searches.RenameInput{ID: r.PathValue("id"), Body: searches.NewName{Name: r.PostForm.Get("name")}}
	renamed, err := searches.RenameSearch.Call(r.Context(), c.api, in)
	if err != nil {
		return c.searchesPage(r, searchesView{Problem: frame.ProblemOf(err)})
	}
	return c.Done(searchesPath, url.Values{"done": {"Renamed to " + renamed.Body.Name + "."}}), nil
}

func (c searchPages) deleteSearch(r *http.Request) (frame.Response, error) {
	if _, err := searches.DeleteSearch.Call(r.Context(), c.api, searches.DeleteInput{ID: r.PathValue("id")}); err != nil {
		return c.searchesPage(r, searchesView{Problem: frame.ProblemOf(err)})
	}
	return c.Done(searchesPath, url.Values{"done": {"The search is deleted."}}), nil
}
