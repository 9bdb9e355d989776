package rabbit

import (
	"context"
	"errors"
	"fmt"
)

// ClusterName returns the cluster name from the broker's server-properties
// (https://www.rabbitmq.com/docs/parameters), "" if none exists. It waits for a
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
// 4.0.5, "" if none exists. It waits for a live connection until ctx ends.
func (c *Connection) ServerVersion(ctx context.Context) (string, error) {
	live, _, err := c.await(ctx)
	if err != nil {
		return "", err
	}
	version, _ := live.Properties["version"].(string)
	return version, nil
}

// VHost returns the virtual host of the URL.
func (c *Connection) VHost() string { return c.vhost }

// Source returns the name by which events of the virtual host are stored: the cluster's
// name, and the virtual host. It waits for a live connection until ctx ends.
func (c *Connection) Source(ctx context.Context) (string, error) {
	cluster, err := c.ClusterName(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the broker for its name: %w", err)
	}
	if cluster == "" {
		return "", errors.New("the broker does not say its cluster's name: set source")
	}
	return cluster + "/" + c.vhost, nil
}
