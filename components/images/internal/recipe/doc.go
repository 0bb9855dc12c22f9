// Package recipe reads the inputs of images: recipes (HCL, for people) and locks (lines, made by
// `cadre-images lock`). Both are checked in; an image contains only their files.
//
// A recipe has at most one base, its From. Its additions are one layer of the image.
package recipe
