package rabbit

import "context"

// ClusterName is the name of the broker's cluster, as it says when a connection
// opens (https://www.rabbitmq.com/docs/parameters); "" where it says nothing. It
// waits for a live connection as long as ctx allows.
func (c *Connection) ClusterName(ctx context.Context) (string, error) {
	live, _, err := c.await(ctx)
	if err != nil {
		return "", err
	}
	name, _ := live.Properties["cluster_name"].(string)
	return name, nil
}

// ServerVersion is the version of the broker, as it says when a connection opens, such
// as 4.0.5; "" where it says nothing. It waits as ClusterName does.
func (c *Connection) ServerVersion(ctx context.Context) (string, error) {
	live, _, err := c.await(ctx)
	if err != nil {
		return "", err
	}
	version, _ := live.Properties["version"].(string)
	return version, nil
}
