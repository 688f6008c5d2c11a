from stackmem.cli.main import main

main()
