package carriertest

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
)

// manyStreams opens more streams than may be open at once, one after another
// and a few at a time.
func manyStreams(t *testing.T, near, far side) {
	const workers, each = 8, 200
	var serving, opening sync.WaitGroup
	for range workers {
		serving.Go(func() {
			for range each {
				st, err := far.AcceptStream()
				if err != nil {
					t.Errorf("accept: %v", err)
					return
				}
				if _, err := io.Copy(st, struct{ io.Reader }{st}); err != nil {
					t.Errorf("echo: %v", err)
				}
				if err := st.CloseWrite(); err != nil {
					t.Errorf("half-close: %v", err)
				}
			}
		})
		opening.Go(func() {
			for i := range each {
				st := near.open(t)
				if _, err := st.Write([]byte{byte(i)}); err != nil {
					t.Errorf("write: %v", err)
				}
				if err := st.CloseWrite(); err != nil {
					t.Errorf("half-close: %v", err)
				}
				if b, err := io.ReadAll(st); err != nil || len(b) != 1 || b[0] != byte(i) {
					t.Errorf("got %v, error %v", b, err)
				}
			}
		})
	}
	opening.Wait()
	serving.Wait()
}

// storm opens, writes and resets streams from both sides in every order, also before they
// are accepted. No stream may end cleanly or keep its place. The streams are fewer than a
// carrier lets wait for Accept, which may refuse further ones.
func storm(t *testing.T, near, far side) {
	const workers, each = 4, 50
	var accepting, working, opening sync.WaitGroup
	for _, s := range []side{near, far} {
		accepting.Go(func() {
			for range workers * each {
				st, err := s.AcceptStream()
				if err != nil {
					t.Errorf("accept: %v", err)
					return
				}
				working.Go(func() {
					defer st.Reset()
					b := make([]byte, 1)
					_, err := st.Read(b)
					if err == nil && b[0]%2 == 0 {
						_, err = io.Copy(io.Discard, struct{ io.Reader }{st})
						if err == nil {
							err = io.EOF
						}
					}
					if errors.Is(err, io.EOF) {
						t.Error("a reset stream ended cleanly")
					}
				})
			}
		})
		for worker := range workers {
			opening.Go(func() {
				for i := range each {
					st := s.open(t)
					if i%3 != 0 {
						_, _ = st.Write(bytes.Repeat([]byte{byte(worker + i)}, 1+i))
					}
					st.Reset()
				}
			})
		}
	}
	opening.Wait()
	accepting.Wait()
	working.Wait()
	roundTrip(t, near, far)
}
