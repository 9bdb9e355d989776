package cli

import (
	"context"

	"github.com/watershipmq/watership/internal/adopt"
	"github.com/watershipmq/watership/internal/adoption"
)

// PreviewAdoption implements adopter.
func (d *direct) PreviewAdoption(ctx context.Context, r adoption.Request) (adopt.Result, error) {
	return adoption.Service{System: d.System}.Preview(ctx, r)
}

// Adopt implements adopter.
func (d *direct) Adopt(ctx context.Context, r adoption.Request, follow bool) (adopt.Result, error) {
	return adoption.Service{System: d.System}.Adopt(ctx, r, follow)
}
