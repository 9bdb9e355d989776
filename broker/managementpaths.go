package broker

import "net/http"

// managementEndpoints returns the paths of the management API, in the order of
// matching.
func managementEndpoints() []endpoint {
	get := func(act action) map[string]action { return map[string]action{http.MethodGet: act} }
	return []endpoint{
		{"overview", get(getOverview)},
		{"whoami", get(getLogin)},
		{"nodes", get(listNodes)},
		{"users", get(listUsers)},
		{"permissions", get(listPermissions)},
		{"vhosts", get(listVHosts)},
		{"vhosts/{vhost}", get(getVHost)},
		{"aliveness-test/{vhost}", get(getAlive)},
		{"connections", get(listConnections)},
		{"vhosts/{vhost}/connections", get(listConnections)},
		{"connections/{}", map[string]action{http.MethodGet: getConnection, http.MethodDelete: closeConnection}},
		{"connections/{}/channels", get(listConnectionChannels)},
		{"channels", get(listChannels)},
		{"vhosts/{vhost}/channels", get(listChannels)},
		{"consumers", get(listConsumers)},
		{"consumers/{vhost}", get(listConsumers)},

		{"exchanges", get(listExchanges)},
		{"exchanges/{vhost}", get(listExchanges)},
		{"exchanges/{vhost}/{}", map[string]action{
			http.MethodGet: getExchange, http.MethodPut: putExchange, http.MethodDelete: deleteExchange,
		}},
		{"exchanges/{vhost}/{}/bindings/source", get(listBindingsFrom)},
		{"exchanges/{vhost}/{}/bindings/destination", get(listBindingsToExchange)},
		{"exchanges/{vhost}/{}/publish", map[string]action{http.MethodPost: postMessage}},
		{"queues", get(listQueues)},
		{"queues/{vhost}", get(listQueues)},
		{"queues/{vhost}/{}", map[string]action{
			http.MethodGet: getQueue, http.MethodPut: putQueue, http.MethodDelete: deleteQueue,
		}},
		{"queues/{vhost}/{}/bindings", get(listBindingsToQueue)},
		{"queues/{vhost}/{}/contents", map[string]action{http.MethodDelete: purgeQueue}},
		{"queues/{vhost}/{}/get", map[string]action{http.MethodPost: getMessages}},
		{"bindings", get(listBindings)},
		{"bindings/{vhost}", get(listBindings)},
		{"bindings/{vhost}/e/{}/{}/{}", map[string]action{http.MethodGet: listBindingsBetween, http.MethodPost: postBinding}},
		{"bindings/{vhost}/e/{}/{}/{}/{}", map[string]action{http.MethodGet: getBinding, http.MethodDelete: deleteBinding}},
		{"policies", get(listPolicies)},
		{"policies/{vhost}", get(listPolicies)},
		{"policies/{vhost}/{}", map[string]action{
			http.MethodGet: getPolicy, http.MethodPut: putPolicy, http.MethodDelete: deletePolicy,
		}},

		// The broker has none of these.
		{"operator-policies", get(listNothing)},
		{"operator-policies/{vhost}", get(listNothing)},
		{"parameters", get(listNothing)},
		{"vhost-limits", get(listNothing)},
	}
}

func listNothing(*managementRequest) (status int, body any) { return http.StatusOK, []any{} }
