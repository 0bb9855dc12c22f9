package datagram

import (
	"io"
	"syscall"
	"testing"
	"time"

	"cadre.dev/overlay/internal/carrier"
)

const benchChunk = 128 << 10

// cpu is the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStream is one stream over loopback, both ends in this process.
func BenchmarkStream(b *testing.B) {
	d, a := pair(b, limits{})
	done := make(chan int64, 1)
	go func() {
		st, err := a.AcceptStream()
		if err != nil {
			done <- 0
			return
		}
		n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{st}, make([]byte, benchChunk))
		done <- n
	}()
	st, err := d.OpenStream()
	if err != nil {
		b.Fatal(err)
	}
	chunk := make([]byte, benchChunk)
	b.SetBytes(benchChunk)
	b.ResetTimer()
	begin, spent := time.Now(), cpu(b)
	for range b.N {
		if _, err := st.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	if err := st.CloseWrite(); err != nil {
		b.Fatal(err)
	}
	got := <-done
	b.StopTimer()
	if want := int64(b.N) * benchChunk; got != want {
		b.Fatalf("%d bytes arrived, want %d", got, want)
	}
	b.ReportMetric(float64(got)*8/1e6/time.Since(begin).Seconds(), "Mbps")
	b.ReportMetric((cpu(b)-spent).Seconds()/(float64(got)/1e9), "cpu-s/GB")
}

// BenchmarkPing is the round trip of one byte, on a stream and on a control
// stream.
func BenchmarkPing(b *testing.B) {
	for name, open := range map[string]func(*session) (carrier.Stream, error){
		"stream": (*session).OpenStream, "control": (*session).OpenControl,
	} {
		b.Run(name, func(b *testing.B) {
			d, a := pair(b, limits{})
			go func() {
				if st, err := a.AcceptStream(); err == nil {
					_, _ = io.Copy(st, struct{ io.Reader }{st})
				}
			}()
			st, err := open(d)
			if err != nil {
				b.Fatal(err)
			}
			one := make([]byte, 1)
			for b.Loop() {
				if _, err := st.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(st, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
