// Package arch holds the tests of what may import what, and of what the top
// level of the repository may hold. It has no code.
package arch
