package credcache

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cadre.dev/agent/internal/durable"
	"cadre.dev/overlay"
)

const (
	fileName = "credentials"
	// limit bounds the file: the answers that it is made of are bounded too.
	limit = 16 << 20
	// purpose names the use of the sealing key, and the format.
	purpose = "cadre credentials v1"
)

// State is the saved state of a Boot.
type State struct {
	AppID      string `json:"app_id"`
	InstanceID string `json:"instance_id"`
	// BootAt is when the Boot began, Since when its credentials came.
	BootAt time.Time `json:"boot_at"`
	Since  time.Time `json:"since"`
	// Grant is the credentials, a Credentials message.
	Grant []byte `json:"grant"`
	// Peers is the newest map.
	Peers []overlay.Peer `json:"peers"`
	// Config is the newest configuration that was put in force; empty: none was.
	Config []byte `json:"config,omitempty"`
}

// Boot is whose State it is.
type Boot interface {
	// Derive gives 32 bytes that follow from the Boot's key and purpose alone.
	Derive(purpose string) ([]byte, error)
}

// Store keeps one State. Not safe for concurrent use.
type Store struct {
	path string
	box  cipher.AEAD
}

// Open opens the Store of one Boot in dir, which must be in memory. Leftovers of writes
// that did not end are removed.
func Open(dir string, boot Boot) (*Store, error) {
	key, err := boot.Derive(purpose)
	if err != nil {
		return nil, fmt.Errorf("open the boot's saved credentials: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("open the boot's saved credentials: %w", err)
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("open the boot's saved credentials: %w", err)
	}
	s := &Store{path: filepath.Join(dir, fileName), box: box}
	if err := durable.RemoveLeftovers(s.path); err != nil {
		return nil, fmt.Errorf("open the boot's saved credentials: %w", err)
	}
	return s, nil
}

// errNotOurs: another Boot's, or not whole.
var errNotOurs = errors.New("it is another boot's, or not whole")

// Load returns the saved state. It returns nil and removes the file if there is no state that this
// Boot can use; the error is the reason, for people.
func (s *Store) Load() (*State, error) {
	state, err := s.read()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the last worker's credentials are not used: %w", err), s.Remove())
	}
	return state, nil
}

func (s *Store) read() (*State, error) {
	data, exists, err := durable.ReadFile(s.path, limit)
	if err != nil || !exists {
		return nil, err
	}
	plain, err := s.box.Open(nil, nil, data, []byte(purpose))
	if err != nil {
		return nil, errNotOurs
	}
	out := &State{}
	if err := json.Unmarshal(plain, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Save replaces the saved state atomically.
func (s *Store) Save(state State) error {
	plain, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("save the boot's credentials: %w", err)
	}
	sealed := s.box.Seal(nil, nil, plain, []byte(purpose))
	if len(sealed) > limit {
		return fmt.Errorf("save the boot's credentials: %d bytes, at most %d are kept", len(sealed), limit)
	}
	if err := durable.WriteFile(s.path, sealed, 0o600); err != nil {
		return fmt.Errorf("save the boot's credentials: %w", err)
	}
	return nil
}

// Remove forgets all; the next worker asks for admission.
func (s *Store) Remove() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the boot's saved credentials: %w", err)
	}
	return nil
}
