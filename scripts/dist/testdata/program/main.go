// Command program has one library.
package main

import "golang.org/x/sync/errgroup"

func main() {
	var g errgroup.Group
	_ = g.Wait()
}
