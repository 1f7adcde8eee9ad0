echo 'done 3, late 1'
