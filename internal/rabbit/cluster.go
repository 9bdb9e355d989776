package rabbit

import "context"

// ClusterName returns the cluster name from the broker's server-properties
// (https://www.rabbitmq.com/docs/parameters), "" if there is none. It waits for a
// live connection until ctx ends.
func (c *Connection) ClusterName(ctx context.Context) (string, error) {
	live, _, err := c.await(ctx)
	if err != nil {
		return "", err
	}
	name, _ := live.Properties["cluster_name"].(string)
	return name, nil
}

// ServerVersion returns the broker's version from its server-properties, such as
// 4.0.5, "" if there is none. It waits for a live connection until ctx ends.
func (c *Connection) ServerVersion(ctx context.Context) (string, error) {
	live, _, err := c.await(ctx)
	if err != nil {
		return "", err
	}
	version, _ := live.Properties["version"].(string)
	return version, nil
}
