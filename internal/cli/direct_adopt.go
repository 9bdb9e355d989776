package cli

import (
	"context"

	"github.com/watershipmq/watership/internal/operate/adoptions"
)

// Adopt implements adopter.
func (d *direct) Adopt(ctx context.Context, r adoptions.Request, follow bool) (adoptions.Result, error) {
	return adoptions.Service{System: d.System}.Adopt(ctx, r, follow)
}
