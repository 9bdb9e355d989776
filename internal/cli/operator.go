package cli

import (
	"context"
	"os"
	"os/user"

	"github.com/watershipmq/watership/internal/operation/access"
)

// withOperator returns a context whose actions have an operator, as --operator names one; "": the operator of
// the process.
func withOperator(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return access.NewContext(ctx, access.AsOperator(name))
}

// operator returns USER@HOST of the process.
func operator() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
