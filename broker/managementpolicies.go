package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

func putPolicy(r *managementRequest) (status int, body any) {
	d := struct {
		Pattern    string         `json:"pattern"`
		Definition map[string]any `json:"definition"`
		ApplyTo    string         `json:"apply-to"`
		Priority   any            `json:"priority"`
	}{ApplyTo: "all", Priority: json.Number("0")}
	if err := r.read(&d, "pattern", "definition"); err != nil {
		return badRequest(err.Error())
	}
	p := &policy{name: r.names[0], pattern: d.Pattern, applyTo: d.ApplyTo, definition: d.Definition}
	priority, isNumber := d.Priority.(json.Number)
	if !isNumber {
		return invalid(fmt.Errorf("priority should be a number, actually was %s", shownValue(d.Priority)))
	}
	p.priority, _ = priority.Float64()
	v := r.vhost
	if err := p.parse(v.rabbitmq); err != nil {
		return invalid(err)
	}
	v.lock()
	defer v.unlock()
	former, there := v.policies[p.name]
	growth := p.bytes()
	if there {
		growth -= former.bytes()
	}
	if err := v.reserveTopology(growth); err != nil {
		return refused(err)
	}
	v.policies[p.name] = p
	v.applyPolicies()
	return createdOr(there), nil
}

// invalid returns the response to a policy with an error.
func invalid(err error) (status int, body any) {
	return badRequest(fmt.Sprintf("Validation failed\n\n%v\n", err))
}

func deletePolicy(r *managementRequest) (status int, body any) {
	v := r.vhost
	v.lock()
	defer v.unlock()
	p, there := v.policies[r.names[0]]
	if !there {
		return missing()
	}
	delete(v.policies, p.name)
	v.releaseTopology(p.bytes())
	v.applyPolicies()
	return http.StatusNoContent, nil
}

func getPolicy(r *managementRequest) (status int, body any) {
	return r.one(func(v *vhost) view {
		if p, there := v.policies[r.names[0]]; there {
			return p.view(v)
		}
		return nil
	})
}

func listPolicies(r *managementRequest) (status int, body any) {
	return r.list(r.inVHosts(func(v *vhost) []view {
		var all []view
		for _, name := range slices.Sorted(maps.Keys(v.policies)) {
			all = append(all, v.policies[name].view(v))
		}
		return all
	}))
}

func (p *policy) view(v *vhost) view {
	return view{
		"name": p.name, "vhost": v.name, "pattern": p.pattern, "apply-to": p.applyTo,
		"priority": p.priority, "definition": p.definition,
	}
}

// shown returns the fields of an object that has this policy; nil: no policy.
func (p *policy) shown() view {
	if p == nil {
		return view{"policy": nil, "operator_policy": nil, "effective_policy_definition": view{}}
	}
	return view{"policy": p.name, "operator_policy": nil, "effective_policy_definition": p.definition}
}
