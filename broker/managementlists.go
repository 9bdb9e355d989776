package broker

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// view is an object as the management API shows it.
type view = map[string]any

// list responds with the columns, the order and the page that the query of the request
// selects, of the objects that match a name.
func (r *managementRequest) list(all []view) (status int, body any) {
	query := r.URL.Query()
	total := len(all)
	all, err := filter(all, query)
	if err != nil {
		return badRequest(err.Error())
	}
	if column := query.Get("sort"); column != "" {
		order(all, column, query.Get("sort_reverse") == "true")
	}
	paged := view{"total_count": total, "filtered_count": len(all)}
	if query.Has("page") {
		if all, err = page(all, query, paged); err != nil {
			return badRequest(err.Error())
		}
	}
	for i, v := range all {
		all[i] = columns(v, query)
	}
	if query.Has("page") {
		paged["items"], paged["item_count"] = all, len(all)
		return http.StatusOK, paged
	}
	return http.StatusOK, all
}

// filter returns the views whose name contains a text, or matches a regular expression.
func filter(all []view, query url.Values) ([]view, error) {
	name := query.Get("name")
	if name == "" {
		return all, nil
	}
	wanted := func(have string) bool { return strings.Contains(strings.ToLower(have), strings.ToLower(name)) }
	if query.Get("use_regex") == "true" {
		expression, err := regexp.Compile("(?i)" + name)
		if err != nil {
			return nil, fmt.Errorf("name: %w", err)
		}
		wanted = expression.MatchString
	}
	return slices.DeleteFunc(all, func(v view) bool {
		have, _ := v["name"].(string)
		return !wanted(have)
	}), nil
}

func order(all []view, column string, reverse bool) {
	slices.SortStableFunc(all, func(a, b view) int {
		x, y := at(a, column), at(b, column)
		if reverse {
			x, y = y, x
		}
		return compare(x, y)
	})
}

func compare(x, y any) int {
	if x, isText := x.(string); isText {
		y, _ := y.(string)
		return cmp.Compare(x, y)
	}
	return cmp.Compare(number(x), number(y))
}

func number(value any) float64 {
	n, _ := strconv.ParseFloat(fmt.Sprint(value), 64)
	return n
}

// page returns a page, with its number and the counts.
func page(all []view, query url.Values, paged view) ([]view, error) {
	n, size := 1, 100
	for name, value := range map[string]*int{"page": &n, "page_size": &size} {
		if text := query.Get(name); text != "" {
			given, err := strconv.Atoi(text)
			if err != nil || given < 1 || given > 500 && value == &size {
				return nil, fmt.Errorf("%s is %q, expected a number", name, text)
			}
			*value = given
		}
	}
	count := max((len(all)+size-1)/size, 1)
	if n > count {
		return nil, fmt.Errorf("page_out_of_range: there are %d pages", count)
	}
	paged["page"], paged["page_size"], paged["page_count"] = n, size, count
	return all[(n-1)*size : min(n*size, len(all))], nil
}

// columns returns the fields that a request names, such as name or message_stats.ack.
func columns(v view, query url.Values) view {
	if query.Get("columns") == "" {
		return v
	}
	kept := view{}
	for name := range strings.SplitSeq(query.Get("columns"), ",") {
		value := at(v, name)
		if value == nil {
			continue
		}
		path := strings.Split(name, ".")
		inside := kept
		for _, part := range path[:len(path)-1] {
			next, there := inside[part].(view)
			if !there {
				next = view{}
				inside[part] = next
			}
			inside = next
		}
		inside[path[len(path)-1]] = value
	}
	return kept
}

// at returns the value of a column; nil where none exists.
func at(v view, column string) any {
	name, rest, nested := strings.Cut(column, ".")
	if !nested {
		return v[name]
	}
	inside, _ := v[name].(view)
	return at(inside, rest)
}

// vhosts returns the virtual host that a request names, or all.
func (r *managementRequest) vhosts() (all []*vhost) {
	for _, name := range slices.Sorted(maps.Keys(r.broker.vhosts)) {
		if v := r.broker.vhosts[name]; r.vhost == nil || r.vhost == v {
			all = append(all, v)
		}
	}
	return all
}

// inVHosts returns the views of the virtual host that a request names, or of all.
func (r *managementRequest) inVHosts(views func(*vhost) []view) []view {
	all := []view{}
	for _, v := range r.vhosts() {
		v.lock()
		all = append(all, views(v)...)
		v.unlock()
	}
	return all
}

// one responds with a view, or with 404 where it is nil.
func (r *managementRequest) one(show func(*vhost) view) (status int, body any) {
	r.vhost.lock()
	v := show(r.vhost)
	r.vhost.unlock()
	if v == nil {
		return missing()
	}
	return http.StatusOK, columns(v, r.URL.Query())
}
