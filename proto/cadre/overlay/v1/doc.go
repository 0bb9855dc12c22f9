// Package overlayv1 is what a node of the overlay tells about its Links: agents tell
// coordinators, coordinators tell operators. It is for people and figures; nothing is
// decided on it. All but this page is generated from overlay.proto.
package overlayv1
