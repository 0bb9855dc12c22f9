// Package load is the traffic of the measurements: bulk streams, ping-pong of 64 bytes, and a
// steady beat whose silences show a failure like an application sees it. The same methods drive an
// application's connection through a tunnel and a tunnel's own streams; only the Dialer differs.
package load
