package system

import "context"

// subjectKeys are the keys of subjects in the store, which is opened when they are first asked for.
type subjectKeys struct{ system *System }

// SubjectKeys implements privacy.SubjectKeys.
func (k *subjectKeys) SubjectKeys(ctx context.Context, subjects []string) (map[string][]byte, error) {
	store, err := k.system.Store(ctx)
	if err != nil {
		return nil, err
	}
	return store.SubjectKeys(ctx, subjects)
}

// KeepSubjectKeys implements privacy.SubjectKeys.
func (k *subjectKeys) KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (map[string][]byte, error) {
	store, err := k.system.Store(ctx)
	if err != nil {
		return nil, err
	}
	return store.KeepSubjectKeys(ctx, keys)
}
