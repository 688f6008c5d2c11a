from slug import slug

assert slug("Hello World") == "hello-world", f"case: {slug('Hello World')}"
assert slug("  a  b ") == "a-b", f"spaces: {slug('  a  b ')!r}"
print("ok")
