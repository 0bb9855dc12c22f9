// Package measure measures a Link over the Session in use: round trips, and how fast bytes
// come. The side that begins and the side that takes part are both here; who may begin is
// decided above.
package measure
