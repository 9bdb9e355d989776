package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/storetest"
)

func TestSubjectsConform(t *testing.T) {
	storetest.RunSubjects(t, func(t *testing.T) storetest.Subjects { return installed(t, Config{}) })
}

// A key that was destroyed is in no file, and no key is in the file of the events.
func TestDestroyedKeysLeaveTheFiles(t *testing.T) {
	s := installed(t, Config{})
	first, second := bytes.Repeat([]byte("first key "), 10), bytes.Repeat([]byte("second key "), 10)
	if _, err := s.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_a": first, "subject_b": second}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(s.path + subjectsSuffix); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if found := filesWith(t, s, second); len(found) != 1 || found[0] != filepath.Base(s.path)+subjectsSuffix {
		t.Errorf("%q have a key", found)
	}
	if _, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a"}); err != nil {
		t.Fatal(err)
	}
	if found := filesWith(t, s, []byte("first key")); len(found) > 0 {
		t.Errorf("%q have a key that was destroyed", found)
	}
	if found := filesWith(t, s, second); len(found) != 1 {
		t.Errorf("%q have the other key", found)
	}
}

// A copy of the folder of the events has no key if they are in another one, also while keys are destroyed.
func TestSubjectsInAnotherFolder(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "keys")
	s := installed(t, Config{Subjects: elsewhere})
	key := bytes.Repeat([]byte("a key "), 10)
	if _, err := s.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_a": key, "subject_b": key}); err != nil {
		t.Fatal(err)
	}
	if destroyed, err := s.DestroySubjectKeys(t.Context(), []string{"subject_a"}); err != nil || len(destroyed) != 1 {
		t.Errorf("%v, %v", destroyed, err)
	}
	if found := filesWith(t, s, key); len(found) > 0 {
		t.Errorf("%q have a key", found)
	}
	if content, err := os.ReadFile(elsewhere); err != nil || bytes.Count(content, key) != 1 {
		t.Errorf("%v, the other file has the key %d times", err, bytes.Count(content, key))
	}
}

// A store whose keys are in the former place does not open, since all about their subjects would count as erased.
func TestSubjectsThatWereNotMoved(t *testing.T) {
	s := installed(t, Config{})
	if _, err := s.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_a": {1}}); err != nil {
		t.Fatal(err)
	}
	former, elsewhere := s.path+subjectsSuffix, filepath.Join(t.TempDir(), "keys")
	cfg := Config{Path: s.path, Subjects: elsewhere}
	if other, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), former) || !strings.Contains(err.Error(), elsewhere) {
		t.Errorf("it opens %v, %v", other, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(former)
	if err == nil {
		err = os.WriteFile(elsewhere, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "still in "+former) {
		t.Errorf("with keys in both places it opens %v, %v", other, err)
	}
	if err := os.Remove(former); err != nil {
		t.Fatal(err)
	}
	moved, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	if keys, err := moved.SubjectKeys(t.Context(), []string{"subject_a"}); err != nil || len(keys) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
	for _, cfg := range []Config{
		{Path: s.path, Subjects: s.path}, {Path: s.path, Subjects: "a\x00b"}, {Path: s.path, Subjects: t.TempDir()}, {Path: s.path, Subjects: elsewhere + "/none/keys"},
	} {
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%q is opened", cfg.Subjects)
		}
	}
}

// A file that was there and is not, as on a disk that is not mounted, erases nobody, and no second one gets keys.
func TestSubjectsWhoseFileIsMissing(t *testing.T) {
	s := installed(t, Config{Subjects: filepath.Join(t.TempDir(), "keys")})
	keys, of := map[string][]byte{"subject_a": {1}}, []string{"subject_a"}
	if found, err := s.SubjectKeys(t.Context(), of); err != nil || len(found) > 0 {
		t.Errorf("before the first key: %v, %v", found, err)
	}
	if _, err := s.KeepSubjectKeys(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	away := s.keysPath + ".away"
	if err := os.Rename(s.keysPath, away); err != nil {
		t.Fatal(err)
	}
	s.keys.SetMaxIdleConns(0) // another process
	_, reading := s.SubjectKeys(t.Context(), of)
	_, keeping := s.KeepSubjectKeys(t.Context(), map[string][]byte{"subject_b": {2}})
	_, destroying := s.DestroySubjectKeys(t.Context(), of)
	for _, err := range []error{reading, keeping, destroying} {
		if failed, is := errors.AsType[*eventstore.Error](err); !is || failed.Kind != eventstore.Unavailable || !strings.Contains(err.Error(), "the file is missing") {
			t.Errorf("%v", err)
		}
	}
	if err := os.Rename(away, s.keysPath); err != nil {
		t.Fatal(err)
	}
	if found, err := s.SubjectKeys(t.Context(), of); err != nil || len(found) != 1 {
		t.Errorf("back again: %v, %v", found, err)
	}
}

// filesWith returns the files beside a store that have a text.
func filesWith(t *testing.T, s *Store, text []byte) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(filepath.Dir(s.path), entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, text) {
			found = append(found, entry.Name())
		}
	}
	return found
}

// While the file of keys cannot be made, its caller waits, and is told which file it is.
func TestSubjectsFileThatCannotBeMade(t *testing.T) {
	s := installed(t, Config{})
	kept, path := map[string][]byte{"subject_a": {1}}, s.path+subjectsSuffix
	want := func(name string) {
		t.Helper()
		_, err := s.KeepSubjectKeys(t.Context(), kept)
		failed, is := errors.AsType[*eventstore.Error](err)
		if !is || failed.Kind != eventstore.Unavailable || !strings.Contains(err.Error(), "in the SQLite file "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	folder := filepath.Dir(path)
	if err := os.Rename(folder, folder+" away"); err != nil {
		t.Fatal(err)
	}
	want("its folder is away")
	if err := os.Rename(folder+" away", folder); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	want("it is a folder")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := s.KeepSubjectKeys(t.Context(), kept); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
